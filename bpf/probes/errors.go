package probes

import "errors"

// ErrNoSites is wrapped by Attach's error for a binary without any of the functions that are watched.
var ErrNoSites = errors.New("neither controller-runtime nor client-go nor net/http's client is linked into it: there is nothing to watch")
