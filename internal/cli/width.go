package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// unknownWidth is the width of lines, in columns, where the output is no terminal.
const unknownWidth = 100

// Width is the number of columns of a terminal, or unknownWidth.
func Width(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 {
			return int(size.Col)
		}
	}
	return unknownWidth
}

// leastRoom is the room, in columns, below which items begin a line of their own.
const leastRoom = 24

// Fitted writes lines of a table, each followed by as many of its items as its width has room for, and the number of
// the others.
func Fitted(w io.Writer, lines string, items [][]string) error {
	width := Width(w)
	for i, line := range strings.Split(strings.TrimSuffix(lines, "\n"), "\n") {
		if i < len(items) && len(items[i]) > 0 {
			if width-utf8.RuneCountInString(line) < leastRoom {
				line = strings.TrimRight(line, " ") + "\n      " + fit(items[i], width-6)
			} else {
				line += fit(items[i], width-utf8.RuneCountInString(line))
			}
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " ")); err != nil {
			return err
		}
	}
	return nil
}

// fit joins the items that there is room for, at least one.
func fit(items []string, room int) string {
	text := items[0]
	for i, item := range items[1:] {
		left, more := len(items)-2-i, ""
		if left > 0 {
			more = fmt.Sprintf(" and %d more", left)
		}
		if utf8.RuneCountInString(text+" "+item+more) > room {
			return fmt.Sprintf("%s and %d more", text, left+1)
		}
		text += " " + item
	}
	return text
}
