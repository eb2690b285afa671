package slurmtext

import "bytes"

// MIGSlices are the compute slices of a MIG profile at the end of a GPU's type
// (1g.10gb, nvidia_a100_3g.20gb, 1g.5gb+me) and the slices of a GPU: seven, of an A30
// four. They are 0 where there is no profile.
func MIGSlices(model []byte) (slices, of int64) {
	at := bytes.LastIndex(model, []byte("g."))
	if at < 1 || model[at-1] < '1' || model[at-1] > '7' || at > 1 && model[at-2] >= '0' && model[at-2] <= '9' {
		return 0, 0
	}
	memory := bytes.TrimLeft(model[at+2:], "0123456789")
	if len(memory) == len(model[at+2:]) || !bytes.HasPrefix(memory, []byte("gb")) {
		return 0, 0
	}
	slices, of = int64(model[at-1]-'0'), 7
	switch string(model[at-1 : len(model)-len(memory)]) {
	case "1g.6", "2g.12", "4g.24":
		of = 4
	}
	return slices, of
}
