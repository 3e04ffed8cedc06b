//! Workloads, measurements and the report on what each security flavor costs.
