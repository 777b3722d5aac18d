#![allow(dead_code, reason = "every test program uses its own part of this")]

pub mod conformance;
