package main

// usageError is a mistake in how a command was called: exit code 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// usage is a mistake in how a command was called.
func usage(err error) error { return usageError{err} }
