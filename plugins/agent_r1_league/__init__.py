"""The league: estimators of advantages against exact ones, in worlds that can be enumerated."""
