//! The decisions of members: single steps, and many orders of many steps.

mod database;
mod model;
mod steps;
