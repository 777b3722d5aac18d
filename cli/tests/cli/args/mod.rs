//! Tests of the help, of settings in flags and variables, and of the manual pages.

mod help;
mod pages;
mod settings;
mod usage;
mod variables;
