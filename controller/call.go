package controller

import (
	"cmp"

	"github.com/autosched/autosched/controller/audit"
)

// Call says who asks for a change, and how it is made. The zero Call is the service's own.
type Call struct {
	// Origin is recorded in the audit log; the service is the actor if it is zero.
	Origin audit.Origin
	// DryRun checks a change and returns its result, as far as to be stored. Nothing is stored or visible.
	DryRun bool
	// Request is the id of the request in Once that the change is stored with, "" for none.
	Request string
}

// By returns the origin that the audit log has.
func (c Call) By() audit.Origin {
	return cmp.Or(c.Origin, audit.Origin{Actor: "service", Verb: "Change"})
}
