//go:build !linux

package store

// fileIdentity returns "": copies are not recognised.
func fileIdentity(string) string { return "" }

// mapSize is 0: files may be as large as their mapped part.
const mapSize = 0
