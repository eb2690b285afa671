// Package trace reads the traces that clusters publish or log, in any of
// Formats, and writes the project's own. Open takes files, folders and standard
// input, plain or compressed, and accounts for every row. Anonymize
// and Shift make a trace fit to be given away.
//
// A format reads rows into an input, which counts and checks them; most formats
// are tables of columns. Hostile input is bounded by the limits of Options.
package trace
