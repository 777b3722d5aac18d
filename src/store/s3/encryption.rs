//! The encryption of writes on S3.

use aws_sdk_s3::operation::put_object::builders::PutObjectFluentBuilder;
use aws_sdk_s3::types::ServerSideEncryption;

use super::S3Store;

/// The encryption that each write requests. By default, writes request no encryption.
#[derive(Default)]
pub(super) struct Encryption {
    algorithm: Option<ServerSideEncryption>,
    key: Option<String>,
    bucket_key: Option<bool>,
}

/// If a store has no encryption setting, S3 applies the bucket's default encryption, which is at
/// least SSE-S3. Reads need no encryption setting, and the candidates of one election may use
/// different settings. Keys of the client (SSE-C) are not supported, because every reader would
/// have to send them.
impl S3Store {
    /// Encrypts each write with keys of S3 (SSE-S3) and overrides the bucket's default. Writes need
    /// no additional permission.
    #[must_use]
    pub fn with_s3_managed_keys(mut self) -> S3Store {
        let algorithm = Some(ServerSideEncryption::Aes256);
        self.encryption = Encryption { algorithm, ..Encryption::default() };
        self
    }

    /// Encrypts each write with a key in AWS KMS (SSE-KMS) and overrides the bucket's default.
    /// Writes need `kms:GenerateDataKey` on the key, and reads need `kms:Decrypt`. A candidate
    /// needs both permissions. A compactor needs neither of them.
    ///
    /// `key` is the key's ID or ARN, or the ARN of an alias. `None` selects the account's `aws/s3`
    /// key. Use an ARN for a key of another account.
    ///
    /// If `bucket_key` is true, S3 caches a bucket key and sends fewer requests to KMS. `None`
    /// selects the bucket's default. Without a bucket key, a leader with the default validity
    /// causes about 260,000 KMS requests a month.
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
