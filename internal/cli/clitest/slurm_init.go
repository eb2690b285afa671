package clitest

import (
	"os"
	"path/filepath"
)

// Listings is a folder with outputs of Slurm's commands.
var Listings = func() string {
	dir, err := os.Getwd()
	for ; err == nil && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, none := os.Stat(filepath.Join(dir, "go.mod")); none == nil {
			break
		}
	}
	return filepath.Join(dir, "schedulers", "slurm", "conf", "testdata")
}()
