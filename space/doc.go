// Package space describes what can be set on a scheduler and keeps every
// setting within its rules.
//
// A [Space] is a list of parameters (floats, integers, booleans, categories,
// ordinals, durations in seconds, and arrays whose length is another parameter)
// and a list of rules between them: a parameter may exist only while another
// has a certain value ([Activation]), values may have to increase ([Ordering]),
// a weighted sum may be bounded ([Linear]), and a combination of values may be
// ruled out ([Forbidden]). A [Config] is one set of values; it is immutable,
// and has one canonical text and one hash.
//
// Four functions do most of the work. [Load] reads a specification and says
// everything that is wrong with it. [Space.Check] says what is wrong with a
// configuration and never changes it. [Space.Project] turns anything at all
// into a valid configuration and says what it changed; every kind of rule says
// how. [Space.Decode] maps the unit cube, where samplers live, onto valid
// configurations. A finite space can also be listed ([Space.Enumerate]).
package space
