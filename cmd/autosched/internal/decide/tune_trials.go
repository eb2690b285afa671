package decide

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

// studyFlags name the files of a study: those that its trials are written to and
// read from.
type studyFlags struct {
	trials, resume string
}

func (f *studyFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.trials, "trials", "",
		"write trials and rejections to this file as they are measured, as JSON lines")
	fl.StringVar(&f.resume, "resume", "",
		"continue a file that --trials wrote, to its budget or to --budget, which may be larger: its trials are not "+
			"measured again, and with the same budget the result is that of an uninterrupted run; new trials go to "+
			"the same file, or to that of --trials")
}

// studyFile is the record of a study, read and written.
type studyFile struct {
	from *search.Recording // nil if there is none
	out  *os.File          // nil if there is none
	path string
	had  []byte // content of the file from at on
	at   int64
	line int  // number of the next line, from 1
	made bool // the file did not exist
	// accepted, if set, is called when the resumed record proves to be of this
	// search.
	accepted func()
}

// open reads and opens the files of a study in a space.
func (f *studyFlags) open(in *space.Space) (*studyFile, error) {
	s := &studyFile{path: f.trials, line: 1}
	var text []byte
	if f.resume != "" {
		var err error
		if text, err = os.ReadFile(f.resume); err != nil {
			return nil, fmt.Errorf("--resume: %w", err)
		}
		if s.from, err = search.ReadRecording(bytes.NewReader(text), f.resume, in); err != nil {
			return nil, fmt.Errorf("--resume: %w", err)
		}
	}
	mode := os.O_CREATE | os.O_RDWR
	switch {
	case f.resume != "" && (f.trials == "" || sameFile(f.trials, f.resume)):
		s.path, s.had, mode = f.resume, text, os.O_RDWR
	case f.trials == "":
		return s, nil
	}
	_, err := os.Stat(s.path)
	s.made = errors.Is(err, os.ErrNotExist)
	if s.out, err = os.OpenFile(s.path, mode, 0o644); err != nil {
		return nil, fmt.Errorf("--trials: %w", err)
	}
	if s.had == nil {
		info, err := s.out.Stat()
		if err == nil && info.Size() > 0 {
			err = fmt.Errorf("%s is not empty and is not overwritten: name another file, or continue it "+
				"with --resume %s", s.path, s.path)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("--trials: %w", err), s.out.Close())
		}
	}
	return s, nil
}

// sameFile reports whether two paths lead to one file, however they are written.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// to is the destination of the record, nil for none.
func (s *studyFile) to() io.Writer {
	if s.out == nil {
		return nil
	}
	return s
}

// Write skips lines that the file has and appends after them. It replaces an
// incomplete line at the end; a complete line that differs stays and ends the search.
func (s *studyFile) Write(line []byte) (int, error) {
	s.line++
	if bytes.HasPrefix(s.had, line) {
		s.reportAccepted()
		s.had = s.had[len(line):]
		s.at += int64(len(line))
		return len(line), nil
	}
	if bytes.IndexByte(s.had, '\n') >= 0 {
		return 0, fmt.Errorf("%s:%d: another line would come here, as of another --sampler, or another --budget "+
			"where the first line has none, and what was measured would be lost: the file is unchanged; continue "+
			"in another file with --trials", s.path, s.line-1)
	}
	s.reportAccepted()
	if s.had != nil {
		s.had = nil
		if err := s.out.Truncate(s.at); err != nil {
			return 0, err
		}
	}
	n, err := s.out.WriteAt(line, s.at)
	s.at += int64(n)
	return n, err
}

func (s *studyFile) reportAccepted() {
	if s.accepted != nil {
		s.accepted()
		s.accepted = nil
	}
}

// budget is that of the resumed record, or standard if it has none; at least
// standard in a search that ends by time.
func (s *studyFile) budget(standard int, timed bool) int {
	if n := s.from.Budget(); n > 0 && !(timed && n < standard) {
		return n
	}
	return standard
}

// used says how a search resumes the record.
func (s *studyFile) used(sampler string, budget int) string {
	if n := s.from.Trials(); n > budget && s.from.Header.Sampler == sampler {
		return fmt.Sprintf("%s holds %d trials, --budget %d uses the first %d", s.from.Name, n, budget, budget)
	}
	return fmt.Sprintf("%d trials of %s are not measured again", s.from.Trials(), s.from.Name)
}

// hint says how to continue after an interruption; the file does not hold --time.
func (s *studyFile) hint(budget int, within time.Duration) string {
	if s.out == nil {
		return ""
	}
	hint := fmt.Sprintf("; continue with --resume %s --budget %d", s.path, budget)
	if within > 0 {
		hint += " --time " + within.String()
	}
	return hint
}

// close may be called twice. It removes a new file that stayed empty.
func (s *studyFile) close() error {
	if s.out == nil {
		return nil
	}
	if err := s.out.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("--trials: %w", err)
	}
	if s.made && s.at == 0 {
		s.made = false
		return os.Remove(s.path)
	}
	return nil
}
