//go:build !unix

package replay

import "time"

var processBegan = time.Now()

// processTime stands in for processor time where the system does not tell.
func processTime() time.Duration { return time.Since(processBegan) }
