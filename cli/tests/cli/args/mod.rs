//! Help, settings, variables, pages: everything before a verb begins.

mod pages;
mod settings;
mod usage;
mod variables;
