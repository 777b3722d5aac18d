//! Refuses file systems that several machines may share.

use std::path::Path;

use super::folder::Folder;
use crate::store::StoreError;

/// Refuses a directory on a file system that may hide the locks of this machine from writers on
/// other machines.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn refuse(root: &Folder, path: &Path) -> Result<(), StoreError> {
    use super::failure::failed;
    use crate::store::{Determinacy, StoreErrorKind};

    let stat = nix::sys::statfs::fstatfs(root.file())
        .map_err(|errno| failed("inspect", path, Determinacy::Determinate, errno))?;
    // C libraries use different integer types for this number. Only its lower 32 bits matter.
    #[allow(clippy::unnecessary_cast, reason = "necessary with some C libraries")]
    let magic = stat.filesystem_type().0 as u32;
    match name(magic) {
        None => Ok(()),
        Some(name) => Err(StoreError::new(
            StoreErrorKind::Unsupported,
            Determinacy::Determinate,
            format!(
                "{} is on {name}; other machines may not see the locks and listings of this file \
                 system: use a directory on a local disk for one machine, or S3 for several \
                 machines",
                path.display()
            ),
        )),
    }
}

/// Accepts every file system, because systems other than Linux have no portable way to detect the
/// type of a file system.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn refuse(_root: &Folder, _path: &Path) -> Result<(), StoreError> {
    Ok(())
}

/// Returns the name of a file system that several machines may share, by its number in statfs(2).
#[cfg(any(target_os = "linux", target_os = "android"))]
fn name(magic: u32) -> Option<&'static str> {
    Some(match magic {
        0x6969 => "NFS",
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => "SMB",
        0x5346_414f | 0x6b41_4653 => "AFS",
        0x00c3_6400 => "CephFS",
        0x0bd0_0bd0 => "Lustre",
        0x1983_0326 => "BeeGFS",
        0x4750_4653 => "GPFS",
        0x0116_1970 => "GFS2",
        0x7461_636f => "OCFS2",
        0x2003_0528 => "OrangeFS",
        0x786f_4256 => "a VirtualBox shared folder",
        0x7375_7245 => "Coda",
        0x564c => "NCP",
        // This number also covers sshfs, s3fs, gcsfuse and virtiofs.
        0x6573_5546 => "FUSE",
        0x0102_1997 => "9p",
        _ => return None,
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_shared_file_systems_have_a_name_in_the_table() {
        use nix::sys::statfs;
        #[allow(clippy::unnecessary_cast, reason = "necessary with some C libraries")]
        let name_of = |fs_type: statfs::FsType| name(fs_type.0 as u32);
        assert_eq!(name_of(statfs::NFS_SUPER_MAGIC), Some("NFS"));
        assert_eq!(name_of(statfs::SMB_SUPER_MAGIC), Some("SMB"));
        assert_eq!(name_of(statfs::AFS_SUPER_MAGIC), Some("AFS"));
        assert_eq!(name_of(statfs::CODA_SUPER_MAGIC), Some("Coda"));
        assert_eq!(name_of(statfs::NCP_SUPER_MAGIC), Some("NCP"));
        assert_eq!(name_of(statfs::FUSE_SUPER_MAGIC), Some("FUSE"));
        // These numbers come from the kernel's fs/ceph/super.h and linux/magic.h, from Lustre's
        // lustre_user.h, and from the FhgfsOpsSuper.h of BeeGFS.
        assert_eq!((name(0x00c3_6400), name(0x0bd0_0bd0)), (Some("CephFS"), Some("Lustre")));
        assert_eq!((name(0x1983_0326), name(0x7461_636f)), (Some("BeeGFS"), Some("OCFS2")));
        assert_eq!(name(0x0102_1997), Some("9p"));
        for local in [statfs::EXT4_SUPER_MAGIC, statfs::OVERLAYFS_SUPER_MAGIC] {
            assert_eq!(name_of(local), None);
        }
    }
}
