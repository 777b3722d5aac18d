//! What S3 is asked to encrypt with.

use aws_sdk_s3::operation::put_object::builders::PutObjectFluentBuilder;
use aws_sdk_s3::types::ServerSideEncryption;

/// How S3 encrypts what a store writes, for [`S3Store::with_encryption`].
///
/// Without it the bucket's default encryption holds, which is at least [`S3Managed`] and needs
/// nothing here. Keys that the client brings along (SSE-C) are not supported: every reader would
/// have to send them.
///
/// [`S3Store::with_encryption`]: super::S3Store::with_encryption
/// [`S3Managed`]: S3Encryption::S3Managed
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum S3Encryption {
    /// SSE-S3: keys that S3 keeps. Needs no permission.
    S3Managed,
    /// SSE-KMS: a key in AWS KMS. Who writes needs `kms:GenerateDataKey` on it, and who reads
    /// `kms:Decrypt`; a candidate does both, a compactor neither.
    Kms {
        /// The key's ID or ARN, or the ARN of an alias; `None` is the account's `aws/s3`. A key of
        /// another account needs an ARN.
        key: Option<String>,
        /// Whether S3 keeps a key of the bucket for a while, so that not every request is one to
        /// KMS, too; `None` is the bucket's default. Without it a leader at the default validity
        /// makes some 260,000 requests to KMS a month.
        bucket_key: Option<bool>,
    },
}

impl S3Encryption {
    pub(super) fn on(this: Option<&Self>, put: PutObjectFluentBuilder) -> PutObjectFluentBuilder {
        match this {
            None => put,
            Some(S3Encryption::S3Managed) => {
                put.server_side_encryption(ServerSideEncryption::Aes256)
            }
            Some(S3Encryption::Kms { key, bucket_key }) => put
                .server_side_encryption(ServerSideEncryption::AwsKms)
                .set_ssekms_key_id(key.clone())
                .set_bucket_key_enabled(*bucket_key),
        }
    }
}
