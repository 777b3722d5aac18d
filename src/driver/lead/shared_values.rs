//! Values that all tasks under one leadership, or one partition, share.

use std::any::Any;
use std::sync::{Arc, Mutex, OnceLock};

use crate::env::mutex::unpoisoned;

/// A set of values with at most one value of each type. The first [`get`](SharedValues::get)
/// creates the value. An empty set must use little memory, because each owned partition has one
/// set.
#[derive(Debug, Default)]
pub struct SharedValues(OnceLock<Box<Mutex<Vec<Value>>>>);

type Value = Arc<dyn Any + Send + Sync>;

impl SharedValues {
    /// Returns the value of this type. The first call creates the value.
    pub fn get<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut values = unpoisoned(self.0.get_or_init(Box::default).lock());
        if let Some(found) = values.iter().find_map(|one| Arc::clone(one).downcast().ok()) {
            return found;
        }
        let new = Arc::<T>::default();
        values.push(Arc::clone(&new) as Value);
        new
    }
}
