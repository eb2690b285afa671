// Package site keeps the description of a cluster in a folder, which simulations read: its nodes and tenants, the
// settings in force, and the registration of its scheduler.
package site

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Files of a folder. Those of a scheduler may be more.
const (
	Cluster    = "cluster.json"    // the cluster, as workload.Cluster
	Current    = "current.yaml"    // the settings in force
	Scheduler  = "scheduler.json"  // the registration
	NodeEvents = "node-events.csv" // optional: when nodes were down or drained
)

// A Folder is the path of a description.
type Folder string

// Path returns the path of a file of the folder.
func (f Folder) Path(name string) string { return filepath.Join(string(f), name) }

// Missing returns the path of the first required file that is not there, empty if all are. A scheduler needs some of
// its own.
func (f Folder) Missing(own ...string) string {
	for _, name := range append([]string{Cluster, Current, Scheduler}, own...) {
		if !f.Has(name) {
			return f.Path(name)
		}
	}
	return ""
}

// Has reports whether the folder has a file.
func (f Folder) Has(name string) bool {
	_, err := os.Stat(f.Path(name))
	return err == nil
}

// A File is a file to write.
type File struct {
	Name string
	Text []byte
}

// Write writes files, each whole, and returns their paths.
func (f Folder) Write(files ...File) (paths []string, err error) {
	if err := os.MkdirAll(string(f), 0o755); err != nil {
		return nil, err
	}
	for _, file := range files {
		path := f.Path(file.Name)
		paths = append(paths, path)
		if err := atomicfile.Write(path, func(w io.Writer) error {
			_, err := w.Write(append(bytes.TrimRight(file.Text, "\n"), '\n'))
			return err
		}); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// A Registration is a description as the service registers it.
type Registration struct {
	ID      string
	Cluster workload.Cluster
	// Parameters are the settings in force, in the space as the site narrows it.
	Parameters space.Config
	// Tuned lists the ids of the parameters to register.
	Tuned []string
}

// Describe returns the cluster and the settings in force as files, and the registration as encode renders it.
func Describe(r Registration, inForce space.Config, encode func(Registration) ([]byte, error)) ([]File, error) {
	cluster, err := json.MarshalIndent(r.Cluster, "", "  ")
	if err != nil {
		return nil, err
	}
	var current bytes.Buffer
	for _, id := range inForce.IDs() {
		value, err := json.Marshal(inForce.Get(id)) // YAML reads it as the same value
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&current, "%s: %s\n", id, value)
	}
	registration, err := encode(r)
	return []File{{Cluster, cluster}, {Current, current.Bytes()}, {Scheduler, registration}}, err
}
