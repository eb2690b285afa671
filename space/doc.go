// Package space describes the parameters of a scheduler and keeps every
// configuration within their rules.
//
// A [Space] is a list of parameters (floats, integers, booleans, categories,
// ordinals, durations in seconds, and arrays whose length is another parameter) and
// a list of rules between them: a parameter may be active only while another has a
// certain value ([Activation]), values may have to increase ([Ordering]), a weighted
// sum may be bounded ([Linear]), and a combination of values may be forbidden
// ([Forbidden]). A [Config] is one set of values; it is immutable and has a
// canonical text and a hash.
//
// Four functions do most of the work. [Load] reads a specification and reports
// everything wrong with it. [Space.Check] reports what is wrong with a configuration
// and never changes it. [Space.Project] turns any values into a valid configuration
// and reports the changes; the documentation of each kind of rule defines its
// projection. [Space.Decode] maps the unit cube, in which samplers work, to valid
// configurations. [Space.Enumerate] lists a finite space.
package space
