// This file is empty: that there is one lets functions of this package have no body.
