//! The encryption of writes on S3.

use aws_sdk_s3::operation::put_object::builders::PutObjectFluentBuilder;
use aws_sdk_s3::types::ServerSideEncryption;

use super::S3Store;

/// The encryption of each write: none by default.
#[derive(Default)]
pub(super) struct Encryption {
    algorithm: Option<ServerSideEncryption>,
    key: Option<String>,
    bucket_key: Option<bool>,
}

/// Without these the bucket's default encryption holds, which is at least that with keys of S3.
/// Reading needs no such setting, and members of one election may differ in it. Keys that the
/// client brings along (SSE-C) are not supported: every reader would have to send them.
impl S3Store {
    /// Makes S3 encrypt each write with keys of S3 (SSE-S3), also against the bucket's default.
    /// Needs no permission.
    #[must_use]
    pub fn with_s3_managed_keys(mut self) -> S3Store {
        let algorithm = Some(ServerSideEncryption::Aes256);
        self.encryption = Encryption { algorithm, ..Encryption::default() };
        self
    }

    /// Makes S3 encrypt each write with a key in AWS KMS (SSE-KMS), also against the bucket's
    /// default. A writer needs `kms:GenerateDataKey` on the key, and a reader `kms:Decrypt`; a
    /// candidate does both, a compactor neither.
    ///
    /// `key` is the key's ID or ARN, or the ARN of an alias; `None` is the account's `aws/s3`. A
    /// key of another account needs an ARN.
    ///
    /// `bucket_key`: whether S3 caches a bucket key for a while, so that not every request causes
    /// one to KMS; `None` is the bucket's default. Without it a leader at the default validity
    /// makes some 260,000 requests to KMS a month.
    #[must_use]
    pub fn with_kms_key(mut self, key: Option<String>, bucket_key: Option<bool>) -> S3Store {
        let algorithm = Some(ServerSideEncryption::AwsKms);
        self.encryption = Encryption { algorithm, key, bucket_key };
        self
    }
}

impl Encryption {
    pub(super) fn on(&self, put: PutObjectFluentBuilder) -> PutObjectFluentBuilder {
        put.set_server_side_encryption(self.algorithm.clone())
            .set_ssekms_key_id(self.key.clone())
            .set_bucket_key_enabled(self.bucket_key)
    }
}
