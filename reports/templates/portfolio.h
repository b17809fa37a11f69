{% macro declared(name, is_number) %}{{ "double " if is_number else "const char *" }}{{ name }}{% endmacro %}
/* {{ family }} on {{ device }}: {{ rows|length|count("configuration") }}{{ " within" if portfolio.within else "," }}
   {{ "%g%% of "|format(100 * portfolio.within) if portfolio.within else "" }}the best of {{ "each of " if known|length > 1 else "" }}{{ known|length|count("problem") }}{% if few %}, {{ few }} of them by few samples{% endif %}.
   Written by cuprof {{ command }}. */
#pragma once
#include <math.h>
#include <string.h>

typedef struct { const char *variant;{% for name, is_number in fields.items() %} {{ declared(name, is_number) }};{% endfor %} } {{ stem }}_configuration;

static const {{ stem }}_configuration {{ stem }}_configurations[] = {
{% for row in rows %}
    { {{- row|join(", ") -}} }{{ "" if loop.last else "," }}
{% endfor %}
};

/* The configuration of the nearest problem that was measured. */
static inline const {{ stem }}_configuration *{{ stem }}_pick({% for name, is_number in axes.items() %}{{ declared(name, is_number) }}{{ "" if loop.last else ", " }}{% endfor %}) {
    static const struct {{ "{" }}{% for name, is_number in axes.items() %} {{ declared(name, is_number) }};{% endfor %} int number; } known_[] = {
{% for row in known %}
    { {{- row|join(", ") -}} }{{ "" if loop.last else "," }}
{% endfor %}
    };
    int best_ = 0;
    double least_ = INFINITY;
    for (int i_ = 0; i_ < (int)(sizeof known_ / sizeof known_[0]); ++i_) {
        double d_ = 0.0;
{% for name, is_number in axes.items() %}
{% if is_number %}
        d_ += fabs(log(({{ name }} + 1.0) / (known_[i_].{{ name }} + 1.0)));
{% else %}
        d_ += strcmp({{ name }}, known_[i_].{{ name }}) ? 1e6 : 0.0;
{% endif %}
{% endfor %}
        if (d_ < least_) { least_ = d_; best_ = known_[i_].number; }
    }
    return &{{ stem }}_configurations[best_];
}
