package rig

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain is the parent of TestChildren when a test says so.
func TestMain(m *testing.M) {
	if dir := os.Getenv("RIG_TEST_PARENT"); dir != "" {
		c, err := start("child", filepath.Join(dir, "child.log"), "sleep", nil, "1000")
		if err != nil {
			panic(err)
		}
		fmt.Println(c.cmd.Process.Pid)
		<-c.done
	}
	os.Exit(m.Run())
}

// TestChildren: a program ends with the process that started it, however that ends.
func TestChildren(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), "RIG_TEST_PARENT="+t.TempDir())
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // it was killed
	for deadline := time.Now().Add(time.Minute); running(pid); time.Sleep(pollInterval) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d outlives its parent", pid)
		}
	}
}

// running reports whether a process is there and is not only waited for.
func running(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(text), ") Z ")
}

// TestEnded: the report of a program that ended by itself has the end of its log.
func TestEnded(t *testing.T) {
	c, err := start("child", filepath.Join(t.TempDir(), "child.log"), "sh", []string{"WORD=bye"}, "-c", "echo $WORD; exit 3")
	if err != nil {
		t.Fatal(err)
	}
	<-c.done
	if why := c.ended(); why != "child: exit status 3: bye" {
		t.Errorf("it ended: %s", why)
	}
	c.kill()
}
