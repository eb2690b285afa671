// Package cli has the parts that the commands of AutoSched's programs share: flags of a trace, a cluster and a
// configuration, the connection to the service, output, progress, help and completion.
package cli
