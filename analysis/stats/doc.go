// Package stats is the statistics of the analysis: small functions over plain numbers, each of which says in its
// comment which formula it is and who published it.
//
//	p, low, high := stats.Wilson(81, 263)          // 0.308, from 0.255 to 0.366
//	r, low, high := stats.Rate(10, 2)              // 5 a second, from 2.4 to 9.2
//	curve := stats.KaplanMeier(lives)              // how long deletions take, those that hang included
//	q := stats.Quantile(latencies, 0.99, seed)     // with a bootstrap interval
//	g := stats.Backoff(stats.Growing(waits))       // by how much each wait is longer than the last
//	peak := stats.LombScargle(times, values, 100)  // the strongest period, and how likely noise has one as strong
//	keep := stats.BenjaminiHochberg(ps, 0.05)      // which of many tests to believe
//
// Intervals are of 95 %. What draws at random takes a seed: the same data and seed give the same numbers on every
// machine. Functions that sort their sample say so. Nothing here panics or yields NaN for samples that are empty,
// constant or of one value: an estimate that the data doesn't bear is 0 with bounds as wide as they go, a test that
// can't be made has p = 1.
package stats
