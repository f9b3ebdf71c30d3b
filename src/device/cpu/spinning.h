// How long the workers of CPU devices spin while they wait for each other.
#pragma once

namespace draftsmith {

// OpenMP's workers spin for milliseconds before they sleep: where another program has one of the cores, every launch that
// they share takes as long as the system lets that program run, and decoding is a hundred times slower. How long they spin
// is read from the environment before main(), so the program starts itself once more with a value of its own: a few
// microseconds, in which an idle machine's workers nearly always come. What the user has set is left alone. Returns when
// there is nothing to do.
void limit_spinning(char** arguments);

}  // namespace draftsmith
