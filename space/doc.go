// Package space describes what can be set on a scheduler and keeps every
// setting within its rules.
//
// A [Space] is a list of parameters (floats, integers, booleans, categories,
// durations in seconds, and arrays whose length is another parameter) and a
// list of rules between them: a parameter may exist only while another has a
// certain value ([Activation]), and values may have to increase ([Ordering]).
// A [Config] is one set of values; it is immutable, and has one canonical text
// and one hash.
//
// Three functions do most of the work. [Space.Check] says what is wrong with a
// configuration and never changes it. [Space.Project] turns anything at all
// into a valid configuration and says what it changed. [Space.Decode] maps the
// unit cube, where samplers live, onto valid configurations.
//
// Linear rules and forbidden combinations are not expressed here.
package space
