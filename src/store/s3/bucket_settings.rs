//! The settings of a bucket that affect an election: versioning and lifecycle rules.

use aws_sdk_s3::types::{
    BucketVersioningStatus, ExpirationStatus, LifecycleRule as SdkRule, LifecycleRuleFilter,
    TransitionStorageClass,
};

use super::{
    CallInterceptor, Determinacy, RequestContext, S3Store, StoreError, StoreErrorKind, Verb,
    answered,
};

/// The settings of a bucket. A separate request reads each field. So if one permission is missing,
/// only one field contains an error.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct BucketSettings {
    /// Versioning of the bucket. The read needs the permission `s3:GetBucketVersioning`.
    pub versioning: Result<Versioning, StoreError>,
    /// Enabled rules. The read needs the permission `s3:GetLifecycleConfiguration`.
    pub lifecycle: Result<Vec<LifecycleRule>, StoreError>,
}

/// The versioning state of a bucket.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Versioning {
    /// Every write of a key replaces the object.
    Off,
    /// Every write, including each renewal, adds a version.
    On,
    /// Versioning was enabled before. Old versions may exist, and new writes add no versions.
    Suspended,
}

/// An enabled lifecycle rule: its objects and its actions.
#[doc(hidden)]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LifecycleRule {
    /// Name of the rule, or an empty string.
    pub id: String,
    /// Prefix of the keys that the rule applies to.
    pub prefix: String,
    /// True if the rule applies only to objects with a certain tag.
    pub tagged: bool,
    /// The rule applies only to objects larger than this size in bytes.
    pub larger_than: Option<i64>,
    /// The rule applies only to objects smaller than this size in bytes.
    pub smaller_than: Option<i64>,
    /// True if the rule deletes current versions.
    pub expires_current: bool,
    /// True if the rule deletes replaced versions.
    pub expires_noncurrent: bool,
    /// True if the rule moves current versions to an archive without immediate access.
    pub archives: bool,
}

impl S3Store {
    /// Reads the settings of the bucket. Sends two requests.
    #[doc(hidden)]
    pub async fn bucket_settings(&self) -> BucketSettings {
        BucketSettings { versioning: self.versioning().await, lifecycle: self.lifecycle().await }
    }

    async fn versioning(&self) -> Result<Versioning, StoreError> {
        self.check_bucket()?;
        if self.is_directory_bucket() {
            return Ok(Versioning::Off);
        }
        let (request, seen) =
            (RequestContext::new(self, Verb::Settings, ""), CallInterceptor::default());
        let client = self.client(request).await?;
        let call = client
            .get_bucket_versioning()
            .bucket(&self.bucket)
            .set_expected_bucket_owner(self.owner.clone())
            .customize()
            .interceptor(seen.clone());
        let output = call.send().await.map_err(|error| match answered(&error) {
            // Servers such as moto do not support this request, and send a response with a root
            // element that the SDK does not expect.
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
        let client = self.client(request).await?;
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
    // An expiration without days and date applies only to delete markers.
    let expires_current =
        expiration.is_some_and(|expiration| expiration.days.is_some() || expiration.date.is_some());
    let archive = |class: Option<&TransitionStorageClass>| {
        use TransitionStorageClass::{DeepArchive, Glacier};
        matches!(class, Some(Glacier | DeepArchive))
    };
    let narrowed = LifecycleRule {
        id: rule.id.clone().unwrap_or_default(),
        // A rule without a filter has its prefix in an older field.
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

#[allow(deprecated, reason = "some buckets still have rules of this form")]
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
