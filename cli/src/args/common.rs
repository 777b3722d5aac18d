//! The arguments that several verbs take.

use std::fmt::Display;
use std::num::ParseIntError;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use humantime::DurationError;
use serde_json::Value;
use tenure::Layout;

use crate::exit::{self, Failure};
use crate::output::print::in_ms;
use crate::store::url::StoreUrl;
use crate::store::urls::{StoreUrls, store_urls};

#[derive(Debug, clap::Args)]
pub struct StoreArg {
    /// Location of the election, such as s3://BUCKET/PREFIX or ./DIRECTORY.
    ///
    /// The forms are s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX,
    /// dynamodb://TABLE/PREFIX, and file:///PATH for the processes of one machine. A directory may
    /// also be given as a path that begins with /, ./ or ../ or ends with /. Settings come from the
    /// usual environment variables and files of the service (AWS_PROFILE, AWS_ENDPOINT_URL,
    /// GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_NAME, …).
    ///
    /// Options in the URL have precedence: s3:// and dynamodb:// take
    /// ?region=…&endpoint=…&profile=…, az:// takes account and endpoint, gs:// takes endpoint.
    /// s3:// also takes sse=AES256 or sse=aws:kms, kms-key-id=KEY, bucket-key=true,
    /// expected-bucket-owner=ACCOUNT; file:// takes ?share=group.
    ///
    /// Give the flag 3 or 5 times for an election across stores, always in the same order and with
    /// the same prefix. The variable takes several URLs with spaces between them.
    #[arg(long = "store", value_name = "URL", value_parser = store_urls, env = "TENURE_STORE")]
    #[arg(required = true)]
    pub given: Vec<StoreUrls>,
    /// Layout of the election in the store. All processes of an election must use the same layout
    #[arg(long, value_name = "LAYOUT", value_enum, default_value_t = LayoutArg::EpochFiles)]
    #[arg(env = "TENURE_LAYOUT", hide_short_help = true)]
    pub layout: LayoutArg,
}

impl StoreArg {
    /// Returns the stores, or the reason why they cannot belong to one election.
    pub fn urls(&self) -> Result<StoreUrls, Failure> {
        let urls = StoreUrls::joined(&self.given)?;
        if urls.are_several() && self.layout == LayoutArg::SingleObject {
            let why = "an election across stores has the layout epoch-files";
            return Err(Failure::new(exit::USAGE, why));
        }
        Ok(urls)
    }

    /// Returns the only store, for a verb that works on one store.
    pub fn one(&self, verb: &str) -> Result<StoreUrl, Failure> {
        self.urls()?.one(verb)
    }
}

/// A [`Layout`] on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LayoutArg {
    /// One object for each epoch, such as lock-0000000001.json
    EpochFiles,
    /// One object, lock.json, which each epoch overwrites: needs no `compact`
    SingleObject,
}

impl From<LayoutArg> for Layout {
    fn from(layout: LayoutArg) -> Layout {
        match layout {
            LayoutArg::EpochFiles => Layout::EpochFiles,
            LayoutArg::SingleObject => Layout::SingleObject,
        }
    }
}

/// Returns the default name of a candidate or a member: HOSTNAME-PID.
pub fn default_name() -> String {
    let host = nix::unistd::gethostname().unwrap_or_default().to_string_lossy().into_owned();
    let host = if host.is_empty() { "unknown".to_owned() } else { host };
    format!("{host}-{}", std::process::id())
}

pub fn name(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("a name must have at least one character".to_owned());
    }
    trimmed(text)?;
    Ok(text.to_owned())
}

/// Refuses a value that begins or ends with white space, because people cannot see this white space
/// in output.
pub fn trimmed(text: &str) -> Result<(), String> {
    match text.trim() == text {
        true => Ok(()),
        false => Err("the value must not begin or end with white space".to_owned()),
    }
}

/// Parses a duration such as `30s`. Every duration except 0 needs a unit.
pub fn duration(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    humantime::parse_duration(text).map_err(|error| {
        let why = match error {
            DurationError::UnknownUnit { unit, .. } if unit.is_empty() => {
                "the time unit is missing".to_owned()
            }
            error => error.to_string(),
        };
        format!("{why}; write a number and a unit, such as 500ms, 30s, 10m, 1h")
    })
}

pub fn positive_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("the duration must be above 0".to_owned()),
        duration => Ok(duration),
    }
}

/// Upper bound for the durations that some flags accept. [`YEAR`] and [`CENTURY`] are the bounds of
/// other flags. Useful durations are far below these bounds.
pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);
pub const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// 100 years.
pub const CENTURY: Duration = Duration::from_secs(36_525 * 24 * 60 * 60);

type Parsed = Result<Duration, String>;

/// Returns a parser that accepts durations up to `most`.
pub fn duration_up_to(most: Duration) -> impl Fn(&str) -> Parsed + Clone + Send + Sync {
    move |text| up_to(most, duration(text)?)
}

/// Returns a parser that accepts durations from `least` to `most`.
pub fn from_to(least: Duration, most: Duration) -> impl Fn(&str) -> Parsed + Clone + Send + Sync {
    move |text| match up_to(most, duration(text)?)? {
        short if short < least => {
            Err(format!("{} is too short: at least {}", in_ms(short), in_ms(least)))
        }
        duration => Ok(duration),
    }
}

/// Returns a parser that accepts durations above 0 and up to `most`.
pub fn positive_up_to(most: Duration) -> impl Fn(&str) -> Parsed + Clone + Send + Sync {
    move |text| up_to(most, positive_duration(text)?)
}

fn up_to(most: Duration, given: Duration) -> Parsed {
    if given <= most {
        return Ok(given);
    }
    let in_days = |given: Duration| given.as_nanos().div_ceil(DAY.as_nanos());
    Err(match most <= DAY {
        true => format!("{} is too long: at most {}", in_ms(given), in_ms(most)),
        // The error shows a number of days, because `humantime` would print years of 365.25 days.
        false => format!("{} days are too long: at most {} days", in_days(given), in_days(most)),
    })
}

/// Returns a parser that accepts the whole numbers of `range`.
pub fn count<N>(
    range: RangeInclusive<N>,
) -> impl Fn(&str) -> Result<N, String> + Clone + Send + Sync
where
    N: FromStr<Err = ParseIntError> + PartialOrd + Display + Clone + Send + Sync,
{
    move |text| {
        let (least, most) = (range.start(), range.end());
        match text.parse::<N>() {
            Ok(count) if count < *least => Err(format!("must be at least {least}, got {count}")),
            Ok(count) if count > *most => Err(format!("must be at most {most}, got {count}")),
            parsed => parsed.map_err(|error| error.to_string()),
        }
    }
}

pub fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("the value is not JSON: {error}"))
}

/// Expands to the text below the options in the help of a verb. The text consists of an optional
/// paragraph about the verb, a paragraph for all verbs, and the exit codes of the verb.
macro_rules! after_help {
    ($codes:literal) => {
        concat!(
            "Durations are a number and a unit: 500ms, 30s, 10m, 1h. Logs go to stderr; -q, -v \
             or RUST_LOG sets their level, such as RUST_LOG=tenure=debug, which takes precedence. \
             With --log-format json each line is a JSON object. A flag takes precedence over its \
             variable [env: TENURE_…]. An empty variable has no effect.\n\nExit codes:",
            $codes
        )
    };
    ($text:literal, $codes:literal) => {
        concat!($text, "\n\n", after_help!($codes))
    };
}
pub(crate) use after_help;

/// Help text with the exit codes of the verbs that only read or change records in the store.
pub const RECORD_CODES: &str = after_help!(
    "
   0  done
  64  wrong usage or settings
  69  store unreachable or missing
  70  store unsafe, or an object in it corrupt, too new or deleted
  71  the operating system refused something
  73  a precondition did not hold; nothing was changed
  77  access denied by the store
 130  interrupted by SIGINT, 143 by SIGTERM"
);

pub const COMPACT_CODES: &str = after_help!(
    "
   0  done, or with --every ended by a signal
  64  wrong usage or settings
  69  store unreachable or missing, or something could not be deleted
  70  an object in the store is corrupt, or too new
  71  the operating system refused something
  77  access denied by the store
 129  ended by SIGHUP, 130 by SIGINT, 143 by SIGTERM, after a report of the
      finished work"
);

/// Help text with the exit codes of all verbs.
pub const EXIT_CODES: &str = after_help!(
    "
   0  done
   1  with `wait`: the timeout has passed; with `status --exit-code`: the
      election is vacant, or no recent period is completed; with
      `group status --exit-code`: a partition has no live owner, no group
      exists, or a restore is unfinished
  64  wrong usage or settings
  69  store unreachable or missing, or some epochs could not be deleted
  70  store unsafe, or an object in it corrupt
  71  the operating system refused an operation, such as the start of a process
  73  a precondition did not hold; nothing was changed
  75  lost the lease
  76  another candidate leads (`run --try`, `run --wait`)
  77  access denied by the store
 130  ended by SIGINT, 143 by SIGTERM, and `run`, `probe` and `compact` 129 by
      SIGHUP, after a report of the finished work. `watch`, `serve` and `compact
      --every` run until a signal and exit with 0"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_name_has_the_process_id() {
        assert!(default_name().ends_with(&format!("-{}", std::process::id())));
    }
}
