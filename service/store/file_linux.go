package store

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// mapSize is the least part of config.db and of an auxiliary file that is mapped, in bytes: until a file outgrows it, a
// commit waits for no reader.
const mapSize = 256 << 20

// fileIdentity returns the inode of a file and when it was made, where the file system knows that.
func fileIdentity(path string) string {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO|unix.STATX_BTIME, &st); err != nil {
		return ""
	}
	id := fmt.Sprint(st.Ino)
	if st.Mask&unix.STATX_BTIME != 0 {
		id += fmt.Sprintf("@%d.%09d", st.Btime.Sec, st.Btime.Nsec)
	}
	return id
}
