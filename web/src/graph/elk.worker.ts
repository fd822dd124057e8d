/** Lays graphs out away from the page: the library answers the messages of its own interface. */

import "elkjs/lib/elk-worker.min.js";
