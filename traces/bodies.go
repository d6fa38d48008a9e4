package traces

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// HashObject is the content hash of an object's JSON text: the first 8 bytes of its SHA-256, in hex.
// Of no object ("") it is "".
func HashObject(json string) string {
	if json == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(json))
	return hex.EncodeToString(sum[:8])
}

// bodyKey stands for one version of one object with one exact text. The version alone would not do:
// the same version has other bytes when asked for in another API version or as a table.
type bodyKey [16]byte

func keyOf(uid string, resourceVersion int64, body string) (key bodyKey, hash string) {
	sum := sha256.Sum256([]byte(body))
	b := make([]byte, 0, 128)
	b = append(b, sum[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(resourceVersion))
	b = append(b, uid...)
	whole := sha256.Sum256(b)
	return bodyKey(whole[:16]), hex.EncodeToString(sum[:8])
}

// seenBodies remembers which objects the watch table holds, and as how manieth row; the least
// recently used of them are forgotten when there are too many. Two generations do: what is used moves
// to the young one, and when that is full the old one goes.
type seenBodies struct {
	limit      int // of one generation
	young, old map[bodyKey]int64
}

func newSeenBodies(limit int) *seenBodies {
	return &seenBodies{limit: max(1, limit/2), young: map[bodyKey]int64{}}
}

func (s *seenBodies) add(k bodyKey, row int64) {
	if _, ok := s.get(k); ok {
		return // the first row is the one that is soonest on disk
	}
	if len(s.young) >= s.limit {
		s.old, s.young = s.young, map[bodyKey]int64{}
	}
	s.young[k] = row
}

func (s *seenBodies) get(k bodyKey) (row int64, ok bool) {
	if row, ok = s.young[k]; ok {
		return row, true
	}
	if row, ok = s.old[k]; ok {
		delete(s.old, k)
		if len(s.young) < s.limit {
			s.young[k] = row
		} else {
			s.old, s.young = s.young, map[bodyKey]int64{k: row}
		}
	}
	return row, ok
}
