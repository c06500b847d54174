// Marks the difference between two texts, word by word.

import { el } from "./dom.js";

const LONGEST = 4000; // words of which the difference is found: the time grows with the square

/** Return the two texts as elements, in which what only one of them has is marked. */
export function markDifference(before, after) {
  const [old, fresh] = [split(before), split(after)];
  let start = 0;
  while (start < old.length && start < fresh.length && old[start] === fresh[start]) start++;
  let end = 0;
  while (end < old.length - start && end < fresh.length - start && old.at(-1 - end) === fresh.at(-1 - end)) end++;
  const [oldPart, freshPart] = [old.slice(start, old.length - end), fresh.slice(start, fresh.length - end)];
  const kept = oldPart.length * freshPart.length <= LONGEST * LONGEST / 16 ? common(oldPart, freshPart) : [];
  const keptOld = new Set(kept.map(([at]) => at));
  const keptFresh = new Set(kept.map(([, at]) => at));
  return [
    show("del", old, (at) => at < start || at >= old.length - end || keptOld.has(at - start)),
    show("ins", fresh, (at) => at < start || at >= fresh.length - end || keptFresh.has(at - start)),
  ];
}

function split(text) {
  return text.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];
}

/** Return the indexes of a longest common subsequence. */
function common(old, fresh) {
  const width = fresh.length + 1;
  const lengths = new Uint16Array((old.length + 1) * width);
  for (let at = old.length - 1; at >= 0; at--) {
    for (let other = fresh.length - 1; other >= 0; other--) {
      lengths[at * width + other] =
        old[at] === fresh[other]
          ? lengths[(at + 1) * width + other + 1] + 1
          : Math.max(lengths[(at + 1) * width + other], lengths[at * width + other + 1]);
    }
  }
  const pairs = [];
  let [at, other] = [0, 0];
  while (at < old.length && other < fresh.length) {
    if (old[at] === fresh[other]) pairs.push([at++, other++]);
    else if (lengths[(at + 1) * width + other] >= lengths[at * width + other + 1]) at++;
    else other++;
  }
  return pairs;
}

function show(mark, words, isKept) {
  const parts = [];
  for (const [at, word] of words.entries()) {
    const kept = isKept(at);
    if (parts.length && parts.at(-1).kept === kept) parts.at(-1).text += word;
    else parts.push({ kept, text: word });
  }
  return parts.map(({ kept, text }) => (kept ? text : el(mark, {}, text)));
}
