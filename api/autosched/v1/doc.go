// Package autoschedv1 is the API of AutoSched: resources, events and the
// services that carry them. The .proto files beside it are its manual; the Go
// code is generated from them by api/generate.sh.
package autoschedv1

// ErrorDomain is the domain of the reasons of errors (google.rpc.ErrorInfo).
const ErrorDomain = "autosched"
