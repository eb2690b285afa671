// Package round makes one tuning decision: given a scheduler's ledger
// at an instant, it samples futures, searches configurations on them and applies
// the adoption rule. It is pure: the same input gives the same decision, online
// (package controller) and in evaluation (package replay). Times are simulated;
// objectives are minimised.
package round
