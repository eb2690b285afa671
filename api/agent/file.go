package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/schedulers/native"
	"github.com/autosched/autosched/space"
)

// File is the configuration file of an emulated scheduler.
type File struct {
	Path string
	// Reload has the scheduler read the file again. What it runs then is written to Path
	// with ".running" added, below the reason if it refuses the file.
	Reload <-chan os.Signal

	runs space.Config
}

// reloads is nil for a scheduler without a file, so that nothing comes.
func (f *File) reloads() <-chan os.Signal {
	if f == nil {
		return nil
	}
	return f.Reload
}

// begin reads the file. Without one the scheduler runs its defaults.
func (f *File) begin(s *schedulers.Scheduler) (space.Config, error) {
	c, err := f.read(s)
	if errors.Is(err, fs.ErrNotExist) {
		c, err = s.Space.Default(), nil
	}
	if err == nil {
		err = f.runningNow(s, c, "")
	}
	return c, err
}

// reload reads the file again and reports whether there is another configuration to run.
func (f *File) reload(s *schedulers.Scheduler) (space.Config, bool) {
	c, err := f.read(s)
	if err == nil {
		return c, f.runningNow(s, c, "") == nil
	}
	_ = f.runningNow(s, f.runs, "# refused: "+strings.ReplaceAll(err.Error(), "\n", " ")+"\n")
	return c, false
}

func (f *File) read(s *schedulers.Scheduler) (space.Config, error) {
	text, err := os.ReadFile(f.Path)
	if err != nil {
		return space.Config{}, err
	}
	values, err := s.Form().Parse(text)
	if err != nil {
		return space.Config{}, fmt.Errorf("%s: %w", f.Path, err)
	}
	c, err := native.Config(s.Space, values)
	if err != nil {
		return c, fmt.Errorf("%s: %w", f.Path, err)
	}
	return c, nil
}

// runningNow writes what the scheduler runs.
func (f *File) runningNow(s *schedulers.Scheduler, c space.Config, head string) error {
	text, err := s.Form().Render(native.ValuesOf(c))
	if err != nil {
		return err
	}
	f.runs = c
	out, err := atomicfile.CreatePlain(f.Path + ".running")
	if err != nil {
		return err
	}
	_, err = out.Write(append([]byte(head), text...))
	return out.Finish(err)
}
