
#[allow(missing_docs, unreachable_pub, clippy::all)]
#[doc(hidden)]
pub mod __mutants {
    use std::io::Write;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    struct Switch {
        on: u32,
        seen: Vec<AtomicBool>,
        reached: Option<std::fs::File>,
    }

    static SWITCH: OnceLock<Switch> = OnceLock::new();

    /// Whether this mutant is the one that the environment names. The first call of each is written
    /// to the file of those that were reached, if one is named.
    pub fn on(id: u32) -> bool {
        let switch = SWITCH.get_or_init(|| Switch {
            on: std::env::var("MUTANT").ok().and_then(|id| id.parse().ok()).unwrap_or(0),
            seen: (0..20_000).map(|_| AtomicBool::new(false)).collect(),
            reached: std::env::var_os("MUTANTS_REACHED").and_then(|path| {
                std::fs::OpenOptions::new().create(true).append(true).open(path).ok()
            }),
        });
        if let Some(mut file) = switch.reached.as_ref()
            && !switch.seen[id as usize].swap(true, Relaxed)
        {
            let _ = file.write_all(format!("{id}\n").as_bytes());
        }
        switch.on == id
    }
}
