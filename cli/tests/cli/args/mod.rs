//! Help, settings, variables and manual pages.

mod help;
mod pages;
mod settings;
mod usage;
mod variables;
