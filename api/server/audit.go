package server

// The metadata of a call that the audit log has beside the change. Values of keys that end in -bin may be any text.
const (
	requestIDHeader = "x-request-id"
)
