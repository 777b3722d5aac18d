//! Puts all mutants of a file into one source text, each behind a switch.
//!
//! `a < b` with mutants 4 and 5 becomes `(if on(4) { a <= b } else if on(5) { a == b } else { a < b
//! })`, so one build serves every mutant. Only the last branch holds further switches: one mutant
//! is on at a time.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::{Context, Result};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::list::{Genre, Mutant};

/// The code of the switch, appended to the library's root module.
pub const RUNTIME: &str = include_str!("runtime.rs");

/// A place in a file where mutants are switched.
enum Site<'a> {
    /// An early return before the first statement of a function.
    Body { at: usize, mutants: Vec<&'a Mutant> },
    /// An expression that is replaced as a whole.
    Wrap { range: Range<usize>, mutants: Vec<&'a Mutant> },
    /// A match arm without a guard.
    Arm { at: usize, mutant: &'a Mutant },
    /// The guard of a match arm.
    Guard { range: Range<usize>, arm: Option<&'a Mutant>, guards: Vec<&'a Mutant> },
}

impl Site<'_> {
    fn range(&self) -> Range<usize> {
        match self {
            Site::Body { at, .. } | Site::Arm { at, .. } => *at..*at,
            Site::Wrap { range, .. } | Site::Guard { range, .. } => range.clone(),
        }
    }

    /// Outer sites before inner ones, insertions before what they precede.
    fn order(&self) -> (usize, bool, std::cmp::Reverse<usize>, bool) {
        let range = self.range();
        let guard = matches!(self, Site::Guard { .. });
        (range.start, !range.is_empty(), std::cmp::Reverse(range.end), !guard)
    }
}

/// The file with its mutants behind switches, and those for which there is no switch.
pub fn switched<'a>(text: &str, mutants: &[&'a Mutant]) -> Result<(String, Vec<&'a Mutant>)> {
    let file = syn::parse_file(text).context("the file does not parse")?;
    let mut finder = Finder { at: BTreeMap::new(), sites: Vec::new() };
    for mutant in mutants {
        let at = mutant.span.bytes(text).start;
        if mutant.genre == Genre::FnValue {
            match finder.sites.iter_mut().find(|site| site.range().start == at) {
                Some(Site::Body { mutants, .. }) => mutants.push(mutant),
                _ => finder.sites.push(Site::Body { at, mutants: vec![mutant] }),
            }
        } else {
            finder.at.entry((mutant.genre, at)).or_default().push(mutant);
        }
    }
    finder.visit_file(&file);
    let Finder { at, mut sites } = finder;
    sites.sort_by_key(Site::order);
    let rest = at.into_values().flatten().collect();
    Ok((render(text, 0..text.len(), &sites), rest))
}

struct Finder<'a> {
    at: BTreeMap<(Genre, usize), Vec<&'a Mutant>>,
    sites: Vec<Site<'a>>,
}

impl<'a> Finder<'a> {
    fn take(&mut self, genre: Genre, at: usize) -> Vec<&'a Mutant> {
        self.at.remove(&(genre, at)).unwrap_or_default()
    }

    fn wrap(&mut self, range: Range<usize>, mutants: Vec<&'a Mutant>) {
        if !mutants.is_empty() {
            self.sites.push(Site::Wrap { range, mutants });
        }
    }

    /// The operators of `a + b * c == d`, and its operands.
    fn chain<'e>(
        &mut self,
        expr: &'e syn::Expr,
        mutants: &mut Vec<&'a Mutant>,
        operands: &mut Vec<&'e syn::Expr>,
    ) {
        let syn::Expr::Binary(binary) = expr else { return operands.push(expr) };
        self.chain(&binary.left, mutants, operands);
        mutants.extend(self.take(Genre::BinaryOperator, binary.op.span().byte_range().start));
        self.chain(&binary.right, mutants, operands);
    }
}

/// Whether `a && let b = c` is part of the condition: such a condition cannot be wrapped.
fn has_let(expr: &syn::Expr) -> bool {
    match expr {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_expr(&mut self, expr: &'ast syn::Expr) {
        let range = expr.span().byte_range();
        match expr {
            syn::Expr::Binary(_) if !has_let(expr) => {
                let (mut mutants, mut operands) = (Vec::new(), Vec::new());
                self.chain(expr, &mut mutants, &mut operands);
                self.wrap(range, mutants);
                for operand in operands {
                    self.visit_expr(operand);
                }
                return;
            }
            syn::Expr::Unary(unary) => {
                let mutants = self.take(Genre::UnaryOperator, unary.op.span().byte_range().start);
                self.wrap(range, mutants);
            }
            syn::Expr::Struct(literal) => {
                let mut mutants = Vec::new();
                for field in &literal.fields {
                    mutants.extend(self.take(Genre::StructField, field.span().byte_range().start));
                }
                self.wrap(range, mutants);
            }
            _ => {}
        }
        visit::visit_expr(self, expr);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        let deleted = self.take(Genre::MatchArm, arm.span().byte_range().start).pop();
        match &arm.guard {
            Some((_, guard)) if !has_let(guard) => {
                let range = guard.span().byte_range();
                let guards = self.take(Genre::MatchArmGuard, range.start);
                if deleted.is_some() || !guards.is_empty() {
                    self.sites.push(Site::Guard { range, arm: deleted, guards });
                }
            }
            Some(_) => {}
            None => {
                let at = arm.pat.span().byte_range().end;
                self.sites.extend(deleted.map(|mutant| Site::Arm { at, mutant }));
            }
        }
        visit::visit_arm(self, arm);
    }
}

fn render(text: &str, range: Range<usize>, sites: &[Site]) -> String {
    let (mut out, mut at, mut next) = (String::new(), range.start, 0);
    while let Some(site) = sites.get(next) {
        let own = site.range();
        let inner = next + 1;
        next = inner + sites[inner..].iter().take_while(|s| s.range().start < own.end).count();
        out.push_str(&text[at..own.start]);
        at = own.end;
        // Insertions at the start of a site belong before it; `order` puts them there.
        let rest = || render(text, own.clone(), &sites[inner..next]);
        match site {
            Site::Body { mutants, .. } => {
                for mutant in mutants {
                    let value = format!("return {};", mutant.replacement);
                    out.push_str(&branch(mutant.id, &value));
                }
            }
            Site::Wrap { mutants, .. } => {
                out.push('(');
                for mutant in mutants {
                    let change = mutant.span.bytes(text);
                    let (before, after) = (&text[own.start..change.start], change.end);
                    let copy = [before, &mutant.replacement, &text[after..own.end]].concat();
                    out.push_str(&(branch(mutant.id, &copy) + "else "));
                }
                out.push_str(&format!("{{ {} }})", rest()));
            }
            Site::Arm { mutant, .. } => {
                out.push_str(&marked(mutant.id, &format!(" if !{}", on(mutant.id))));
            }
            Site::Guard { arm, guards, .. } => {
                if let Some(arm) = arm {
                    out.push_str(&marked(arm.id, &format!("!{} &&", on(arm.id))));
                }
                out.push('(');
                for mutant in guards {
                    out.push_str(&(branch(mutant.id, &mutant.replacement) + "else "));
                }
                out.push_str(&format!("{{ {} }})", rest()));
            }
        }
    }
    out.push_str(&text[at..range.end]);
    out
}

fn on(id: u32) -> String {
    format!("crate::__mutants::on({id})")
}

fn branch(id: u32, text: &str) -> String {
    marked(id, &format!("if {} {{ {text} }}", on(id)))
}

fn marked(id: u32, text: &str) -> String {
    format!(" /*<{id}*/ {text} /*>{id}*/ ")
}

/// The arm to blame for a match that does not cover a pattern now that its arms can be switched
/// off: the last one that names all of the pattern, else the last one. `at` is where the matched
/// expression starts.
pub fn blamed_arm(switched: &str, at: usize, uncovered: &str) -> Option<u32> {
    struct Arms<'t>(usize, &'t str, Vec<(u32, &'t str)>);
    impl<'ast> Visit<'ast> for Arms<'_> {
        fn visit_expr_match(&mut self, expr: &'ast syn::ExprMatch) {
            let text = self.1;
            for arm in expr.arms.iter().filter(|_| expr.expr.span().byte_range().start == self.0) {
                let pattern = arm.pat.span().byte_range();
                let guard = &text[pattern.end..arm.fat_arrow_token.span().byte_range().start];
                if let [(id, range)] = &marks(guard)[..]
                    && guard[range.end..].trim().ends_with("*/")
                {
                    self.2.push((*id, &text[pattern]));
                }
            }
            visit::visit_expr_match(self, expr);
        }
    }
    let mut arms = Arms(at, switched, Vec::new());
    arms.visit_file(&syn::parse_file(switched).ok()?);
    let names = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_alphanumeric());
        words.filter(|word| word.starts_with(char::is_uppercase)).map(str::to_owned).collect()
    };
    let wanted = names(uncovered);
    let naming = arms.2.iter().rev().find(|(_, pattern)| {
        let own = names(pattern);
        wanted.iter().all(|name| own.contains(name))
    });
    naming.or(arms.2.last()).map(|(id, _)| *id)
}

/// The mutants in whose text the byte lies.
pub fn blamed(switched: &str, at: usize) -> Vec<u32> {
    let marks = marks(switched).into_iter();
    marks.filter(|(_, range)| range.contains(&at)).map(|(id, _)| id).collect()
}

/// The mutants switched in the line of the byte, else those switched last before it.
pub fn near(switched: &str, at: usize) -> Vec<u32> {
    let line = |at: usize| switched[..at].matches('\n').count();
    let before: Vec<_> =
        marks(switched).into_iter().filter(|(_, range)| range.start <= at).collect();
    let Some(last) = before.last().map(|(_, range)| line(range.start)) else { return Vec::new() };
    before.iter().filter(|(_, range)| line(range.start) == last).map(|(id, _)| *id).collect()
}

fn marks(switched: &str) -> Vec<(u32, Range<usize>)> {
    let starts = switched.match_indices("/*<").filter_map(|(start, mark)| {
        let rest = &switched[start + mark.len()..];
        let id: u32 = rest.split("*/").next()?.parse().ok()?;
        let length = switched[start..].find(&format!("/*>{id}*/"))?;
        Some((id, start..start + length))
    });
    starts.collect()
}
