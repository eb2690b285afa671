package file

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/space"
)

// note is the driver's memory across a crash.
type note struct {
	// InForce is the configuration last applied; nil before the first.
	InForce *entry `json:"in_force,omitempty"`
	// Pending is the configuration that is being applied, or was when the driver ended.
	Pending *entry `json:"pending,omitempty"`
	// Files are the SHA-256 of the contents that the file may have by the driver's hand; empty for
	// no file.
	Files []string `json:"files"`
}

// entry is a configuration and its file.
type entry struct {
	Name         string       `json:"name"`
	Revision     int64        `json:"revision"`
	EpochID      string       `json:"epoch_id,omitempty"`
	EpochCounter int64        `json:"epoch_counter,omitempty"`
	ContentHash  string       `json:"content_hash"`
	Digest       string       `json:"sha256"`
	Sent         space.Values `json:"sent"`
	Values       space.Values `json:"values,omitempty"` // in force
}

func entryOf(c *pb.Configuration, text []byte, sent space.Values) *entry {
	return &entry{Sent: sent, Name: c.GetName(), Revision: c.GetRevision(), EpochID: c.GetEpoch().GetId(),
		EpochCounter: c.GetEpoch().GetCounter(), ContentHash: c.GetContentHash(), Digest: digest(text)}
}

func (e *entry) epoch() *pb.Epoch {
	if e.EpochID == "" {
		return nil
	}
	return &pb.Epoch{Id: e.EpochID, Counter: e.EpochCounter}
}

// load reads the notes.
func (d *Driver) load() error {
	text, err := os.ReadFile(d.path("state.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, &d.note)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: remove it, and start with --take-over", d.path("state.json"), err)
	}
	return nil
}

func (d *Driver) save() error {
	text, err := json.Marshal(&d.note)
	if err != nil {
		return err
	}
	return writeSynced(d.path("state.json"), text)
}

// writeSynced replaces a file by one that is on disk and has its mode and, as far as the driver may set
// it, its owner.
func writeSynced(path string, text []byte) error {
	// One name, so that the remains of a crash are replaced.
	temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".autosched")
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(temporary, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil {
		if sys, ok := info.Sys().(*syscall.Stat_t); ok {
			_ = f.Chown(int(sys.Uid), int(sys.Gid)) // needs rights that the driver may not have
		}
		if err := f.Chmod(info.Mode().Perm()); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(temporary, path); err != nil {
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(path))
}

func removeSynced(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(path))
}
