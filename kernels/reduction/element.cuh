// The element type, given as a macro so that one source serves every dtype of the family.
#pragma once

#ifndef ELEMENT
#define ELEMENT float
#endif

using T = ELEMENT;
