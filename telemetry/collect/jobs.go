package collect

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"time"
)

// Jobs finds the jobs of processes: in a map of processes, or by their control groups.
// Slurm's is named job_ID, and the job is ID; that of a Kubernetes pod has its UID, and
// the job is the UID.
type Jobs struct {
	proc    fs.FS // /proc
	path    string
	changed time.Time
	size    int64
	byPID   map[int]string
	notify  func(text string)
	trouble string // as reported last
}

// NewJobs reads control groups below proc, and the map if there is a path. The last map
// that could be read stays in force, and notify, which may be nil, says why.
func NewJobs(proc fs.FS, mapPath string, notify func(text string)) (*Jobs, error) {
	if notify == nil {
		notify = func(string) {}
	}
	j := &Jobs{proc: proc, path: mapPath, notify: notify}
	if mapPath == "" {
		return j, nil
	}
	return j, j.load()
}

// load reads the map if it changed.
func (j *Jobs) load() error {
	info, err := os.Stat(j.path)
	if err != nil {
		return err
	}
	if info.ModTime().Equal(j.changed) && info.Size() == j.size {
		return nil
	}
	f, err := os.Open(j.path)
	if err != nil {
		return err
	}
	defer f.Close()
	all, err := readMap(f)
	if err != nil {
		return fmt.Errorf("%s: %w", j.path, err)
	}
	j.byPID, j.changed, j.size = all, info.ModTime(), info.Size()
	return nil
}

// maxMap bounds the lines of a map.
const maxMap = 1 << 20

// readMap reads lines of PID JOB, with a blank or a comma between them.
func readMap(r io.Reader) (map[int]string, error) {
	all := map[int]string{}
	in := bufio.NewScanner(r)
	for line := 1; in.Scan(); line++ {
		text := strings.TrimSpace(in.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		fields := strings.Fields(strings.ReplaceAll(text, ",", " "))
		n := 0
		if len(fields) == 2 {
			n, _ = strconv.Atoi(fields[0]) // 0 is none
		}
		if n <= 0 {
			return nil, fmt.Errorf("line %d: %q is not PID JOB, such as 4711 1234", line, text)
		}
		if all[n] = fields[1]; len(all) > maxMap {
			return nil, fmt.Errorf("line %d: more than %d processes", line, maxMap)
		}
	}
	return all, in.Err()
}

// Of is the one job of processes, empty if none or several are found.
func (j *Jobs) Of(pids []int) string {
	if j.path != "" {
		text := ""
		if err := j.load(); err != nil {
			text = fmt.Sprintf("the map of processes stays as it was: %v", err)
		}
		if text != j.trouble && text != "" {
			j.notify(text)
		}
		j.trouble = text
	}
	found := ""
	for _, pid := range pids {
		job := j.byPID[pid]
		if job == "" {
			job = j.group(pid)
		}
		if job == "" {
			continue
		}
		if found != "" && job != found {
			return ""
		}
		found = job
	}
	return found
}

func (j *Jobs) group(pid int) string {
	data, err := fs.ReadFile(j.proc, path.Join(strconv.Itoa(pid), "cgroup"))
	if err != nil { // it ended
		return ""
	}
	return jobOfGroup(data)
}

// jobOfGroup finds the job in the lines of a process's control groups: one in version 2,
// one for each controller in version 1.
func jobOfGroup(data []byte) string {
	for line := range bytes.Lines(data) {
		pod := false
		for part := range strings.SplitSeq(strings.TrimSpace(string(line)), "/") {
			if id, ok := strings.CutPrefix(part, "job_"); ok && id != "" && strings.Trim(id, "0123456789_") == "" {
				return id
			}
			pod = pod || strings.HasPrefix(part, "kubepods")
			if uid, ok := podUID(part); ok && pod {
				return uid
			}
		}
	}
	return ""
}

// podUID finds the UID in the name of a pod's group: podUID of the cgroupfs driver, or
// kubepods-...-podUID.slice of systemd's, which has underscores for hyphens.
func podUID(part string) (string, bool) {
	part = strings.TrimSuffix(part, ".slice")
	i := strings.LastIndex(part, "pod")
	if i < 0 || i > 0 && part[i-1] != '-' {
		return "", false
	}
	uid := strings.ReplaceAll(part[i+len("pod"):], "_", "-")
	const hyphens = 4
	if len(uid) != 36 && len(uid) != 32 || strings.Trim(uid, "0123456789abcdef-") != "" ||
		len(uid) == 36 && strings.Count(uid, "-") != hyphens {
		return "", false
	}
	return uid, true
}
