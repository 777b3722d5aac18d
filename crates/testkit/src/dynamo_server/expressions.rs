//! The DynamoDB expressions that stores use. An expression is a list of terms with `AND` between
//! them.

use serde_json::{Map, Value};

/// An item: its attributes by name, each with its type, such as `{"S": "text"}`.
pub type Item = Map<String, Value>;

/// One term of an expression, after the replacement of its placeholders.
#[derive(Debug, Clone, PartialEq)]
pub enum Term {
    NotExists(String),
    Equal(String, Value),
    Greater(String, Value),
    BeginsWith(String, Value),
}

impl Term {
    /// Returns whether the term is true for this item. If the item does not exist, `item` is
    /// `None`.
    pub fn holds(&self, item: Option<&Item>) -> bool {
        let attribute = |name: &str| item.and_then(|item| item.get(name));
        match self {
            Term::NotExists(name) => attribute(name).is_none(),
            Term::Equal(name, value) => attribute(name) == Some(value),
            Term::Greater(name, value) => match (attribute(name).and_then(text), text(value)) {
                (Some(left), Some(right)) => left.as_bytes() > right.as_bytes(),
                _ => false,
            },
            Term::BeginsWith(name, value) => match (attribute(name).and_then(text), text(value)) {
                (Some(left), Some(right)) => left.starts_with(right),
                _ => false,
            },
        }
    }
}

/// Returns the string of an attribute of type `S`.
pub fn text(value: &Value) -> Option<&str> {
    value.get("S")?.as_str()
}

/// Parses the expressions of a request, and records the placeholders that they use.
pub struct Expressions<'a> {
    names: Option<&'a Item>,
    values: Option<&'a Item>,
    used: Vec<String>,
}

impl<'a> Expressions<'a> {
    pub fn of(request: &'a Value) -> Expressions<'a> {
        let map = |name: &str| request.get(name).and_then(Value::as_object);
        Expressions {
            names: map("ExpressionAttributeNames"),
            values: map("ExpressionAttributeValues"),
            used: Vec::new(),
        }
    }

    /// Returns the terms of a condition, or a description of the error.
    pub fn terms(&mut self, expression: &str) -> Result<Vec<Term>, String> {
        expression.split(" AND ").map(|term| self.term(term.trim())).collect()
    }

    /// Returns the attribute names of a projection.
    pub fn projection(&mut self, expression: &str) -> Result<Vec<String>, String> {
        expression.split(',').map(|name| self.name(name.trim())).collect()
    }

    /// Refuses a request with placeholders that no expression uses, as DynamoDB does.
    pub fn all_used(self) -> Result<(), String> {
        let given = [self.names, self.values].into_iter().flatten().flat_map(Map::keys);
        match given.into_iter().find(|name| !self.used.contains(name)) {
            None => Ok(()),
            Some(name) => Err(format!("Value provided unused in expressions: keys: {{{name}}}")),
        }
    }

    fn term(&mut self, term: &str) -> Result<Term, String> {
        if let Some(name) = inside(term, "attribute_not_exists") {
            return Ok(Term::NotExists(self.name(name)?));
        }
        if let Some(arguments) = inside(term, "begins_with") {
            let (name, value) =
                arguments.split_once(',').ok_or("begins_with takes two arguments")?;
            return Ok(Term::BeginsWith(self.name(name.trim())?, self.value(value.trim())?));
        }
        if let Some((name, value)) = term.split_once(" = ") {
            return Ok(Term::Equal(self.name(name)?, self.value(value)?));
        }
        if let Some((name, value)) = term.split_once(" > ") {
            return Ok(Term::Greater(self.name(name)?, self.value(value)?));
        }
        Err(format!("this double does not support the term {term:?}"))
    }

    fn name(&mut self, placeholder: &str) -> Result<String, String> {
        self.used.push(placeholder.to_owned());
        let name = self.names.and_then(|names| names.get(placeholder)).and_then(Value::as_str);
        name.map(str::to_owned).ok_or_else(|| format!("{placeholder} is not defined"))
    }

    fn value(&mut self, placeholder: &str) -> Result<Value, String> {
        self.used.push(placeholder.to_owned());
        let value = self.values.and_then(|values| values.get(placeholder));
        value.cloned().ok_or_else(|| format!("{placeholder} is not defined"))
    }
}

fn inside<'t>(term: &'t str, function: &str) -> Option<&'t str> {
    term.strip_prefix(function)?.trim().strip_prefix('(')?.strip_suffix(')')
}
