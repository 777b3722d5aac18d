//! Help, settings, variables and manual pages.

mod pages;
mod settings;
mod usage;
mod variables;
