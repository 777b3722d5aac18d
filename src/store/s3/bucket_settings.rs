//! The settings of a bucket that an election must live with: versions and lifecycle rules.

use aws_sdk_s3::types::{
    BucketVersioningStatus, ExpirationStatus, LifecycleRule as SdkRule, LifecycleRuleFilter,
    TransitionStorageClass,
};

use super::{
    CallInterceptor, Determinacy, RequestContext, S3Store, StoreError, StoreErrorKind, Verb,
    answered,
};

/// The settings of a bucket. Each part is read by a request of its own; a missing permission is an
/// error of that part alone.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct BucketSettings {
    /// Needs `s3:GetBucketVersioning`.
    pub versioning: Result<Versioning, StoreError>,
    /// The rules that are enabled. Needs `s3:GetLifecycleConfiguration`.
    pub lifecycle: Result<Vec<LifecycleRule>, StoreError>,
}

/// Whether a bucket keeps the versions of its objects.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Versioning {
    /// Every write of a key replaces the object.
    Off,
    /// Every write, renewals included, leaves a version.
    On,
    /// It was on: old versions may be there, and new writes leave none.
    Suspended,
}

/// An enabled lifecycle rule: its objects and its actions.
#[doc(hidden)]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LifecycleRule {
    /// Its name; empty if it has none.
    pub id: String,
    /// Only keys that start with this.
    pub prefix: String,
    /// Only objects with some tag.
    pub tagged: bool,
    /// Only objects of more bytes.
    pub larger_than: Option<i64>,
    /// Only objects of fewer bytes.
    pub smaller_than: Option<i64>,
    /// It deletes current versions.
    pub expires_current: bool,
    /// It deletes versions that were replaced.
    pub expires_noncurrent: bool,
    /// The rule moves current versions to an archive without immediate access.
    pub archives: bool,
}

impl S3Store {
    /// Reads the settings of the bucket. Two requests.
    #[doc(hidden)]
    pub async fn bucket_settings(&self) -> BucketSettings {
        BucketSettings { versioning: self.versioning().await, lifecycle: self.lifecycle().await }
    }

    async fn versioning(&self) -> Result<Versioning, StoreError> {
        self.check_bucket()?;
        let (request, seen) =
            (RequestContext::new(self, Verb::Settings, ""), CallInterceptor::default());
        let client = request.client(&self.client).await?;
        let call = client
            .get_bucket_versioning()
            .bucket(&self.bucket)
            .set_expected_bucket_owner(self.owner.clone())
            .customize()
            .interceptor(seen.clone());
        let output = call.send().await.map_err(|error| match answered(&error) {
            // Other servers, such as moto, answer with another root element.
            Some((200, None)) => StoreError::new(
                StoreErrorKind::Unsupported,
                Determinacy::Determinate,
                request.failed(&error, &seen).to_string(),
            ),
            _ => request.failed(&error, &seen),
        })?;
        Ok(match output.status {
            Some(BucketVersioningStatus::Enabled) => Versioning::On,
            Some(_) => Versioning::Suspended,
            None => Versioning::Off,
        })
    }

    async fn lifecycle(&self) -> Result<Vec<LifecycleRule>, StoreError> {
        self.check_bucket()?;
        let (request, seen) =
            (RequestContext::new(self, Verb::Settings, ""), CallInterceptor::default());
        let client = request.client(&self.client).await?;
        let call = client
            .get_bucket_lifecycle_configuration()
            .bucket(&self.bucket)
            .set_expected_bucket_owner(self.owner.clone())
            .customize()
            .interceptor(seen.clone());
        match call.send().await {
            Ok(output) => Ok(rules(&output.rules.unwrap_or_default())),
            Err(error) => match answered(&error) {
                Some((404, Some("NoSuchLifecycleConfiguration"))) => Ok(Vec::new()),
                _ => Err(request.failed(&error, &seen)),
            },
        }
    }
}

fn rules(rules: &[SdkRule]) -> Vec<LifecycleRule> {
    rules.iter().filter(|rule| rule.status == ExpirationStatus::Enabled).map(rule).collect()
}

fn rule(rule: &SdkRule) -> LifecycleRule {
    let expiration = rule.expiration.as_ref();
    // The third form of an expiration is for delete markers alone.
    let expires_current =
        expiration.is_some_and(|expiration| expiration.days.is_some() || expiration.date.is_some());
    let archive = |class: Option<&TransitionStorageClass>| {
        use TransitionStorageClass::{DeepArchive, Glacier};
        matches!(class, Some(Glacier | DeepArchive))
    };
    let narrowed = LifecycleRule {
        id: rule.id.clone().unwrap_or_default(),
        // Where the filter was before there were filters.
        prefix: old_prefix(rule).unwrap_or_default(),
        expires_current,
        expires_noncurrent: rule.noncurrent_version_expiration.is_some(),
        archives: rule.transitions().iter().any(|to| archive(to.storage_class.as_ref())),
        ..LifecycleRule::default()
    };
    match &rule.filter {
        Some(filter) => narrow(narrowed, filter),
        None => narrowed,
    }
}

#[allow(deprecated, reason = "buckets still have rules of that form")]
fn old_prefix(rule: &SdkRule) -> Option<String> {
    rule.prefix.clone()
}

fn narrow(rule: LifecycleRule, filter: &LifecycleRuleFilter) -> LifecycleRule {
    let and = filter.and.as_ref();
    let prefix = filter.prefix.clone().or_else(|| and.and_then(|and| and.prefix.clone()));
    LifecycleRule {
        prefix: prefix.unwrap_or(rule.prefix),
        tagged: filter.tag.is_some() || and.is_some_and(|and| !and.tags().is_empty()),
        larger_than: filter
            .object_size_greater_than
            .or_else(|| and.and_then(|and| and.object_size_greater_than)),
        smaller_than: filter
            .object_size_less_than
            .or_else(|| and.and_then(|and| and.object_size_less_than)),
        ..rule
    }
}
