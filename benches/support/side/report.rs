//! What was measured, as a table of claims and as Markdown.

use std::fmt::Write as _;

/// One line of the table: what was measured, and what must hold.
#[derive(Debug)]
pub struct Claim {
    pub what: String,
    pub measured: String,
    pub bound: String,
    pub holds: bool,
    /// Of counts and simulated time alone, so that it is the same in every run and can be asserted.
    pub exact: bool,
}

/// The measurements of one kind.
#[derive(Debug, Default)]
pub struct Section {
    pub title: &'static str,
    /// Markdown that goes above the claims: how it was measured, tables.
    pub text: String,
    pub claims: Vec<Claim>,
    /// File names and SVG.
    pub plots: Vec<(&'static str, String)>,
}

impl Section {
    pub fn new(title: &'static str) -> Section {
        Section { title, ..Section::default() }
    }

    /// A claim about counts or simulated time.
    pub fn exact(&mut self, what: &str, measured: impl Into<String>, bound: &str, holds: bool) {
        self.claim(what, measured.into(), bound, holds, true);
    }

    /// A claim about wall time, processor time or memory.
    pub fn timed(&mut self, what: &str, measured: impl Into<String>, bound: &str, holds: bool) {
        self.claim(what, measured.into(), bound, holds, false);
    }

    fn claim(&mut self, what: &str, measured: String, bound: &str, holds: bool, exact: bool) {
        let (what, bound) = (what.to_owned(), bound.to_owned());
        self.claims.push(Claim { what, measured, bound, holds, exact });
    }

    pub fn print(&self) {
        println!("\n== {}\n", self.title);
        println!("{}", self.text.trim_end());
        for Claim { what, measured, bound, holds, .. } in &self.claims {
            let mark = if *holds { "holds" } else { "DOES NOT HOLD" };
            println!("{mark:>13}  {what}: {measured} (bound: {bound})");
        }
    }
}

/// A Markdown table, whose first column is text.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut text = format!("| {} |\n|", head.join(" | "));
    for column in 0..head.len() {
        text.push_str(if column == 0 { " --- |" } else { " ---: |" });
    }
    text.push('\n');
    for row in rows {
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    text.push('\n');
    text
}

/// All claims in one table.
pub fn claims(sections: &[Section]) -> String {
    let all = sections.iter().flat_map(|section| &section.claims);
    let rows: Vec<_> = all
        .map(|claim| {
            let holds = if claim.holds { "yes" } else { "**no**" };
            let Claim { what, measured, bound, .. } = claim;
            vec![what.clone(), measured.clone(), bound.clone(), holds.to_owned()]
        })
        .collect();
    table(&["measured", "value", "must hold", "holds"], &rows)
}

/// The middle one.
pub fn median(mut values: Vec<f64>) -> f64 {
    quantile(&mut values, 0.5)
}

/// The smallest value that this share does not exceed.
pub fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    tenure::internals::quantile(values, share).expect("something was measured")
}

/// With separators for thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
