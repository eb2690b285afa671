// Package round makes one tuning decision: given what a scheduler's ledger holds
// at an instant, it samples futures, searches configurations on them and applies
// the adoption rule. It is pure: the same input gives the same decision, online
// (package controller) and in evaluation (package replay). Times are simulated;
// objectives are minimised.
package round
