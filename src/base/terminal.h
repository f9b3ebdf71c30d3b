// What may be written to an open file that people may watch.
#pragma once

namespace draftsmith {

// A terminal that follows escape sequences: none has TERM=dumb.
bool follows_escapes(int descriptor);

// One that wants colours too: a NO_COLOR that is not empty refuses them (no-color.org).
bool wants_colours(int descriptor);

}  // namespace draftsmith
