package cli

// UsageError is a mistake in how a command was called: exit code 2.
type UsageError struct{ error }

// Unwrap returns the error without its class.
func (e UsageError) Unwrap() error { return e.error }

// Usage is a mistake in how a command was called.
func Usage(err error) error { return UsageError{err} }
